"""Search the few settings that interact, with the script as it is, and prove the best of them."""
