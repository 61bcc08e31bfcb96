"""`kernel-build`: from `build.toml` to audited, reproducible wheels."""
