# The one program that must be there before any package can be unpacked: busybox of the lock `nix`, by its hash.
{
  seed, # the folder that holds bin/busybox, or null where the store has it
  sha256, # of that folder as nix archives it
}:
let
  name = "busybox";
in
if seed != null then
  builtins.path {
    inherit name sha256;
    path = seed;
  }
else
  derivation {
    inherit name;
    system = "builtin";
    builder = "builtin:fetchurl";
    url = "file:///not-in-the-store/busybox";
    outputHashMode = "recursive";
    outputHashAlgo = "sha256";
    outputHash = sha256;
    executable = true;
    unpack = false;
    preferLocalBuild = true;
  }
