"""Pages of rows against every role: lines of the table in `test_page_roles`."""

DATA_PAGES = """\
data                                   GET   login 403 200 200 200
data-rows                              GET   login 403 200 200 200
data-export?where=x                    GET   login 403 400 400 400
data-row                               GET   login 403 200 200 200
data-row-versions                      GET   login 403 200 200 200
data-changes                           GET   login 403 200 200 200
data-changes-rows                      GET   login 403 200 200 200
data-compare                           GET   login 403 200 200 200
data-compare-rows?earlier=x            GET   login 403 200 200 200
sql                                    GET   login 403 200 200 200
sql                                    POST  login 403 200 200 200
sql-export                             POST  login 403 400 400 400
sql-save                               POST  login 403 422 422 422
sql-delete                             POST  login 403 404 404 404"""
