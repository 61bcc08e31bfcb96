"""Lock files at work (`kernelworks.lockfile` is what they are): made, shipped, fetched and loaded from."""
