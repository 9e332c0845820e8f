"""What every HTTP request passes before it is answered."""
