//! What the program and other libraries in the process can ask: regions and numbers.
