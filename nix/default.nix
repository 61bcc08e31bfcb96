# Trees of locks, and libraries of kernels, made by nix from what the builder locks and plans:
#
#   trees.<lock>        the tree of a toolchain; its digest is that of the lock
#   kernels.<variant>   the outputs of an action that `kernel-build export` wrote
#   artifacts.<lock>    nothing; but the store has all artifacts of the lock then, and needs no mirror for them
{
  # the folder that `kernel-build export` wrote
  exported ? null,
  # where artifacts are, as KERNELWORKS_ARTIFACTS says it: a folder or a URL that `kernel-build toolchain push` filled
  mirror ? builtins.getEnv "KERNELWORKS_ARTIFACTS",
  # the URL of an archive of Debian, for debs that the mirror has not
  archive ? builtins.getEnv "KERNELWORKS_DEB_MIRROR",
}:
let
  inside =
    name:
    let
      path = exported + "/${name}";
    in
    if exported != null && builtins.pathExists path then path else null;
  namesIn = folder: if folder == null then [ ] else builtins.attrNames (builtins.readDir folder);

  locks = import ./locks.nix { own = inside "locks"; };
  artifact = import ./artifact.nix {
    inherit archive;
    mirror =
      if inside "mirror" != null then
        inside "mirror"
      else if builtins.isString mirror && builtins.substring 0 1 mirror == "/" then
        /. + mirror
      else
        mirror;
  };
  artifactsOf = lock: builtins.concatMap artifact (lock.artifact or [ ]);

  tree = import ./tree.nix {
    locks = inside "locks";
    bootstrap = import ./bootstrap.nix {
      busybox = import ./busybox.nix {
        seed = inside "busybox";
        sha256 = locks.nix.seed;
      };
      artifacts = artifactsOf locks.nix;
    };
  };
  trees = builtins.mapAttrs (
    _: lock:
    tree {
      inherit lock;
      artifacts = artifactsOf lock;
      trees = builtins.listToAttrs (map byDigest lock.needs);
    }
  ) locks;
  byDigest = name: {
    name = locks.${name}.digest;
    value = trees.${name};
  };

  unlocked = digest: {
    name = digest;
    value = builtins.path {
      name = digest;
      path = exported + "/trees/${digest}";
    };
  };
  kernel = file: {
    name = builtins.head (builtins.match "(.*)\\.json" file);
    value = import ./action.nix {
      action = builtins.readFile (exported + "/actions/${file}");
      driver = trees.nix;
      trees = builtins.listToAttrs (
        map byDigest (builtins.attrNames locks) ++ map unlocked (namesIn (inside "trees"))
      );
    };
  };
in
{
  inherit trees;
  kernels = builtins.listToAttrs (map kernel (namesIn (inside "actions")));
  artifacts = builtins.mapAttrs (
    _: lock:
    import ./nothing.nix {
      name = "kernelworks-artifacts";
      inputs = map (item: item.path) (artifactsOf lock);
    }
  ) locks;
}
