# The one program that must be there before any package can be unpacked: busybox of the lock `nix`, by its hash.
{ seed }: # the folder that holds bin/busybox, or null where the store has it
let
  name = "busybox";
  sha256 = "494cdad037cf7d0a75ee816fc060b92663de1309602aff43c2f9ce55dade4c40";
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
