# The locks by name, those of a project over those of the program. To each comes `needs`: the names of the locks whose
# trees its own tree is made of.
{
  own, # folder of a project's locks, or null
}:
let
  toolchain = ../builder/kernelworks_build/toolchain;
  read = file: builtins.fromTOML (builtins.readFile file);
  recipes = (read (toolchain + "/recipes.toml")).recipe;

  needs =
    lock:
    let
      version = builtins.elemAt (builtins.match "(.*-)?([^-]*)" lock.name) 1;
    in
    map (builtins.replaceStrings [ "{version}" ] [ version ]) (recipes.${lock.recipe}.needs or [ ]);

  locksIn =
    folder:
    let
      isLock = file: builtins.match ".*\\.toml" file != null;
      lock = file: rec {
        inherit (value) name;
        value = read (folder + "/${file}") // {
          needs = needs value;
        };
      };
    in
    builtins.listToAttrs (map lock (builtins.filter isLock (builtins.attrNames (builtins.readDir folder))));
in
locksIn (toolchain + "/locks") // (if own == null then { } else locksIn own)
