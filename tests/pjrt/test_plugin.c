/* Plug-ins that a loader must refuse, or find a function missing in: MAJOR and FUNCTIONS say which. */
#include <stddef.h>

struct table {
  size_t struct_size;
  void* extension;
  size_t version_size;
  void* version_extension;
  int major, minor;
  void* functions[4];
};
struct message {
  size_t struct_size;
  void* extension;
  const void* error;
  const char* text;
  size_t size;
};
struct code {
  size_t struct_size;
  void* extension;
  const void* error;
  int code;
};

static void error_destroy(void* args) { (void)args; }
static void error_message(struct message* args) {
  args->text = "it has no devices";
  args->size = 17;
}
static void error_code(struct code* args) { args->code = 5; }
#ifdef FAILS
static void* initialise(void* args) { return args; }
#else
static void* initialise(void* args) {
  (void)args;
  return NULL;
}
#endif

const struct table* GetPjrtApi(void);
const struct table* GetPjrtApi(void) {
  static struct table api;
  api.struct_size = 40 + 8 * FUNCTIONS;
  api.major = MAJOR;
  api.minor = 7;
  api.functions[0] = (void*)error_destroy;
  api.functions[1] = (void*)error_message;
  api.functions[2] = (void*)error_code;
  api.functions[3] = (void*)initialise;
  return &api;
}
