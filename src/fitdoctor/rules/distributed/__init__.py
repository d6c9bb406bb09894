"""More devices, not more speed."""
