"""Login by an OpenID Connect provider. `mozilla-django-oidc` does the code flow with state, nonce
and PKCE; what an id token has to be, and who somebody is here, is decided in this package.
"""
