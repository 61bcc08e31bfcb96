{
  description = "Toolchains of kernelworks, made by nix from the locks that its builder uses.";
  outputs = _: import ./outputs.nix { };
}
