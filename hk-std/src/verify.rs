//! Every structural check there is of an HK file.
