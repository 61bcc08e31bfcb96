"""From lock files to trees: compilers, toolkits, SDKs; what is fetched, how it is proved, where it lies."""
