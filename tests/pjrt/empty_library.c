/* A shared object that is no plug-in. */
int troupe_test_empty_library(void);
int troupe_test_empty_library(void) { return 0; }
