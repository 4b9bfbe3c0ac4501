"""The container image and the release, made without a container engine: `make image`, `make release`.

`debian` downloads and unpacks packages, `root` assembles the root filesystem in three layers, `oci` writes layers and
their manifests, `bill` lists what the image holds, `build` joins them, `release` gathers all artifacts of a version.
The same commit and the same packages give the same bytes.
"""
