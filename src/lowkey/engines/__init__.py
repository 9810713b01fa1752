"""Vault room: how a pass over the users is carried out."""
