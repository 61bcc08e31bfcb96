{
  description = "A kernel as `kernel-build export` wrote it.";
  outputs = _: import ./nix/outputs.nix { exported = ./.; };
}
