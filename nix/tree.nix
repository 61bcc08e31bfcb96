# The tree of a lock, made by the program's own code, which refuses one that has not the digest of the lock.
{
  bootstrap,
  locks, # folder of a project's locks, or null
}:
let
  # what makes trees imports no more of the program than this
  packages = ".*/(kernelworks_build(/(resources|sandbox|toolchain)(/.*)?)?|kernelworks(/model)?)";
  imported =
    path: type:
    baseNameOf path != "__pycache__" && (type != "directory" || builtins.match packages path != null);
  program =
    folder:
    builtins.path {
      name = "program";
      path = folder;
      filter = imported;
    };
in
{
  lock,
  artifacts, # of the lock, as artifact.nix gives them
  trees, # those that it is made of, by digest
}:
derivation {
  name = lock.digest;
  system = "x86_64-linux";
  builder = "${bootstrap}/bin/busybox";
  args = [ "sh" "-eu" ./tree.sh ];
  inherit bootstrap;
  PYTHONPATH = "${program ../builder}:${program ../registry}";
  PYTHONDONTWRITEBYTECODE = "1";
  script = ./tree.py;
  work = builtins.toJSON {
    inherit locks trees;
    inherit (lock) name;
    artifacts = builtins.listToAttrs (
      map (item: {
        inherit (item) name;
        value = item.path;
      }) artifacts
    );
  };
}
