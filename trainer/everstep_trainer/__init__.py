"""The agent of a member, and the library inside its workers; the only importer of torch."""
