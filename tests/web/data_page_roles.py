"""Pages of rows against every role: lines of the table in `test_page_roles`."""

DATA_PAGES = """\
data                                   GET  in  403 200 200 200 200 200 200 200 200 404
data-rows                              GET  in  403 200 200 200 200 200 200 200 200 404
data-filter                            GET  in  403 200 200 200 200 200 200 200 200 404
data-plan                              GET  in  403 200 200 200 200 200 200 200 200 404
data-plan-part                         GET  in  403 200 200 200 200 200 200 200 200 404
data-export?where=x                    GET  in  403 400 400 400 400 400 400 400 400 404
data-row                               GET  in  403 200 200 200 200 200 200 200 200 404
data-row-versions                      GET  in  403 200 200 200 200 200 200 200 200 404
data-changes                           GET  in  403 200 200 200 200 200 200 200 200 404
data-changes-rows                      GET  in  403 200 200 200 200 200 200 200 200 404
data-compare                           GET  in  403 200 200 200 200 200 200 200 200 404
data-compare-rows?earlier=x            GET  in  403 200 200 200 200 200 200 200 200 404
trends                                 GET  in  403 200 200 200 200 200 200 200 200 404
effective-settings                     GET  in  403 200 200 200 200 200 200 200 200 404
all-schedules                          GET  in  403 200 200 200 200 200 200 200 200 200
sql                                    GET  in  403 200 200 200 200 200 200 200 200 200
sql                                    POST in  403 200 200 200 200 200 200 200 200 200
sql-cancel                             POST in  403 400 400 400 400 400 400 400 400 400
sql-export                             POST in  403 400 400 400 400 400 400 400 400 400
sql-save                               POST in  403 422 422 422 422 422 422 422 422 422
sql-delete                             POST in  403 404 404 404 404 404 404 404 404 404"""
