# An empty folder, made in nix's sandbox without any program: to see whether it can make one, or to have `inputs`.
{
  name ? "kernelworks-nothing",
  inputs ? [ ],
}:
derivation {
  inherit name inputs;
  system = "builtin";
  builder = "builtin:buildenv";
  derivations = "";
  manifest = "/dev/null";
}
