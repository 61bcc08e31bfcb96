"""The pages that people read: rendered here, without a build step, from what the registry holds."""
