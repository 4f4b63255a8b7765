"""Login through an OpenID Connect provider. `mozilla-django-oidc` runs the code flow with state,
nonce and PKCE; this package validates id tokens and maps them to users.
"""
