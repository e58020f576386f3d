"""Shared by every room: errors, files, formatting, machine, servers."""
