"""What shared objects say of themselves, read without `dlopen`: ELF files, their symbols, what they need."""
