# The files of an artifact of a lock, each as { name, path }, where `name` is that in the builder's cache: the artifact
# itself, or what a mirror in a folder has of it (`<sha256>`, and excerpts of wheels, `<sha256>.<pattern>.zip`).
#
# A file of the mirror and a download have the same path in the store: who has realised the one needs no other.
{
  mirror, # a folder as a path, a URL as a string, or ""
  archive, # a URL, or ""
}:
{ file, kind, sha256, path ? "", ... }:
let
  place = "artifacts/${builtins.substring 0 2 sha256}";
  folder = mirror + "/${place}";
  listed = if builtins.isPath mirror && builtins.pathExists folder then builtins.readDir folder else { };
  mirrored = builtins.filter (name: builtins.substring 0 64 name == sha256) (builtins.attrNames listed);

  # what nix allows in the name of a path
  storeName = builtins.replaceStrings [ "~" ":" "%" "!" ] [ "-" "-" "-" "-" ] file;

  stored = name: {
    inherit name;
    path = builtins.path (
      {
        path = folder + "/${name}";
      }
      // (
        if name == sha256 then
          {
            name = storeName;
            recursive = false;
            inherit sha256;
          }
        else
          { inherit name; } # an excerpt: the digest of the tree proves it
      )
    );
  };

  url =
    if mirror != "" && builtins.isString mirror then
      "${mirror}/${place}/${sha256}"
    else if archive != "" && kind == "deb" then
      "${archive}/${path}"
    else
      "file:///neither-in-the-store-nor-in-a-mirror/${sha256}";
  fetched = {
    name = sha256;
    path = derivation {
      name = storeName;
      system = "builtin";
      builder = "builtin:fetchurl";
      inherit url;
      outputHashMode = "flat";
      outputHashAlgo = "sha256";
      outputHash = sha256;
      executable = false;
      unpack = false;
    };
  };
in
if mirrored == [ ] then [ fetched ] else map stored mirrored
