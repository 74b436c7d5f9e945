"""`vaswani <command>`: one module a command; `__main__` lists them."""
