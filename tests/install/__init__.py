"""Installing: packages, image, chart and overlays, as far as they can be tried without a container engine."""
