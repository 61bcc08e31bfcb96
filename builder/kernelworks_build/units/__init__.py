"""Translation units: what each reads, which are compiled already, and with which headers of torch."""
