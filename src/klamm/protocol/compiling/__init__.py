"""The two sides of the compiler: writers and readers, spelled out as Python source."""
