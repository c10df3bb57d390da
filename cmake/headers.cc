// Carries the precompiled headers; no code.
