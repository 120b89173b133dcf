"""The user's login with a subscription: OAuth 2, and its tokens, encrypted and renewed."""
