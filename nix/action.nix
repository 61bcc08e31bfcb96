# The derivation that runs an action: bubblewrap of locked packages gives it the same layout, and the same command line,
# as every other executor. It makes the action's outputs and nothing else.
{
  action, # text of the JSON that `kernelworks_build.sandbox.nix_store` describes
  driver, # the tree of the lock `nix`
  trees, # digest of a tree -> its path in the store
}:
let
  inherit (builtins.fromJSON action) command outputs;
  word = word: if builtins.isString word then word else trees.${word.tree};
in
derivation {
  name = "kernelworks-action";
  system = "x86_64-linux";
  builder = "${driver}/bin/busybox";
  args = [ "sh" "-eu" ./action.sh ] ++ map word command;
  inherit driver;
  results = builtins.concatStringsSep "\n" outputs;
}
