//! Empty: the measurements are programs (`src/bin`).
