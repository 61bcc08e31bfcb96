# What makes the first tree: the packages of the lock `nix`, put together by busybox alone. It has the shape of the tree
# `nix`, which is then made like every other one.
{
  busybox, # a folder with bin/busybox
  artifacts, # of the lock `nix`, as artifact.nix gives them
}:
derivation {
  name = "kernelworks-bootstrap";
  system = "x86_64-linux";
  builder = "${busybox}/bin/busybox";
  args = [ "sh" "-eu" ./bootstrap.sh ] ++ map (item: item.path) artifacts;
  inherit busybox;
}
