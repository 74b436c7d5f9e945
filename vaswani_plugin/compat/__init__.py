"""Memory that training frees at every update and asks for again at the next; see `memory`."""
