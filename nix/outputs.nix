# The outputs of a flake. It has no inputs, and evaluates without any environment: artifacts come from the store, where
# `nix-build -A artifacts` put them, or from the folder `mirror` of what was exported.
{
  exported ? null,
}:
let
  built = import ./. {
    inherit exported;
    mirror = "";
    archive = "";
  };
in
{
  packages.x86_64-linux = built.trees // built.kernels;
  checks.x86_64-linux = { sandbox = import ./nothing.nix { }; } // built.kernels;
}
