// The C interface between Troupe and its CUDA plug-in: one table of functions. The program links nothing of CUDA; it
// opens the plug-in when somebody asks for a GPU (cuda_plugin.hpp), so one binary serves machines with and without one.
// Both sides include this file and nothing else of each other. Plain C, so that compilers of any version agree on it.
//
// The plug-in is a thin layer: memory, streams, events and captured graphs as the CUDA runtime has them, and a kernel
// for each operation of the graph under that operation's name (OpDef::name). What is run in which order, and what lies
// where, is the program's affair (cuda_program.hpp).
//
// Every function returns 0 or a CUDA error number, which error_text() explains, and leaves the outputs alone on error.
// Errors of the libraries (cuBLASLt, cuDNN) are told as TROUPE_CUDA_LIBRARY_ERROR, in words by library_error().
// Any thread may call; calls on one stream must not overlap. What takes a stream returns before the work is done.
#pragma once
#include <stddef.h>
#include <stdint.h>

// Changes with every change below, and of Kernel (kernels/kernel.hpp). The loader refuses another number.
#define TROUPE_CUDA_ABI 12u
// The one symbol that the plug-in exports: `const TroupeCudaApi* troupe_cuda_api(void)`.
#define TROUPE_CUDA_ENTRY "troupe_cuda_api"
// The same of the plug-in with cuDNN, which is large and opened only for programs that convolve.
#define TROUPE_CUDNN_ENTRY "troupe_cudnn_api"
// The same of a library with kernels of somebody's own operations (kernels/kernel.hpp): `const TroupeCudaKernels*`.
#define TROUPE_CUDA_KERNELS_ENTRY "troupe_cuda_kernels"
#define TROUPE_CUDA_LIBRARY_ERROR (-1)

enum { TROUPE_CUDA_MAX_RANK = 8, TROUPE_CUDA_MAX_OPERANDS = 8, TROUPE_CUDA_MAX_CHAIN = 32 };

// The numbers of DType (core/tensor.hpp).
enum { TROUPE_CUDA_F32 = 0, TROUPE_CUDA_F64 = 1, TROUPE_CUDA_BF16 = 2, TROUPE_CUDA_I32 = 3, TROUPE_CUDA_U8 = 5 };

typedef struct {
  int32_t rank;
  int64_t dims[TROUPE_CUDA_MAX_RANK];
} TroupeCudaShape;

// As Operand (learner/graph/op.hpp), in device memory. data is null for an output that nobody reads.
typedef struct {
  void* data;
  int64_t rows, cols;  // all but the last dimension folded
  int32_t dtype;       // bfloat16 only where the operation stores images so, or multiplies such
  TroupeCudaShape shape;
} TroupeCudaOperand;

// As ValidRows (learner/graph/op.hpp), of the one stripe that a GPU has.
typedef struct {
  int64_t rows;   // of the batch that are data: the first ones
  int64_t batch;  // of the graph
} TroupeCudaRows;

// One node of a graph. Constants are those of Attr (learner/graph/op.hpp).
typedef struct {
  int32_t inputs, outputs;
  TroupeCudaOperand in[TROUPE_CUDA_MAX_OPERANDS];
  TroupeCudaOperand out[TROUPE_CUDA_MAX_OPERANDS];
  double real[4];
  int64_t integer[6];
  TroupeCudaShape shape;
  TroupeCudaRows valid;
  const struct TroupeCudaProduct* product;  // of operations that multiply, else null
  const struct TroupeCudaConv* conv;        // of operations that convolve, else null
  void* workspace;                          // as many bytes as workspace() said
} TroupeCudaCall;

typedef struct TroupeCudaStream TroupeCudaStream;    // opaque: a cudaStream_t
typedef struct TroupeCudaEvent TroupeCudaEvent;      // opaque: a cudaEvent_t
typedef struct TroupeCudaGraph TroupeCudaGraph;      // opaque: a cudaGraphExec_t
typedef struct TroupeCudaPoint TroupeCudaPoint;      // opaque: a cudaGraphNode_t
typedef struct TroupeCudaKernel TroupeCudaKernel;    // opaque, static storage
typedef struct TroupeCudaProduct TroupeCudaProduct;  // opaque: a prepared matrix product
typedef struct TroupeCudaConv TroupeCudaConv;        // opaque: a prepared convolution

typedef struct {
  char name[256];        // zero-terminated
  int32_t major, minor;  // compute capability
  int64_t total_bytes;
} TroupeCudaDevice;

// c[m, n] = op(a) op(b), row-major, as GemmShape (learner/engine/cpu/gemm.hpp); a and b float32 or both bfloat16, c
// float32.
typedef struct {
  int64_t m, n, k;
  int32_t transpose_a, transpose_b;
  int32_t bf16;  // operands
  int32_t tf32;  // float32 operands may be rounded to TF32 inside of the product
  int32_t bias;  // of n values, added to every row
  int32_t activation;  // of what comes out, only with a bias: Activation (learner/ops/linear.hpp)
  int32_t measured;  // the fastest way on this device, whose bits may differ; 0: the library's first
  int32_t tiling;  // not 0: this one of kernels/tiled_product.hpp instead, for tests
} TroupeCudaProductShape;
enum { TROUPE_CUDA_TILINGS = 5 };

// As ConvShape (learner/engine/cpu/convolution.hpp). Weights of passes 0 and 1 come packed: [out, kernel_h, kernel_w,
// in] in the images' type, as the kernel "pack_weight" makes them; the gradient of pass 2 is float32 [kernel_h,
// kernel_w, in, out].
typedef struct {
  int32_t pass;  // 0: forward, 1: gradient of the images, 2: gradient of the weight
  int64_t batch, height, width, in, kernel_h, kernel_w, out, stride, padding;
  int32_t bias;        // forward only
  int32_t activation;  // forward only, the numbers of Activation: 0, 3 (ReLU) or 5 (leaky ReLU, slope 0.1)
  int32_t bf16;        // images and packed weights
  int32_t tf32;
  int32_t measured;  // as above
} TroupeCudaConvShape;

// What an optimiser does at one update; one for each minimised group and step of a launch, in device memory.
// The numbers are those of UpdateRule::constants() (learner/engine/apply_update.hpp).
enum { TROUPE_CUDA_SGD = 0, TROUPE_CUDA_ADAM = 1, TROUPE_CUDA_RMS_PROP = 2 };
typedef struct {
  int32_t pass;  // one of these
  int32_t nesterov;
  float gradient_scale, step_size, beta1, beta2, epsilon, inverse_sqrt_correction, momentum, weight_decay;
  float inner_rate, inside_root;
  float max_global_norm;    // 0: never clipped
  float trust_coefficient;  // of LARS, for lars_rate()
} TroupeCudaRule;

// The end of a step, in device memory: what the kernels decide without asking the host.
enum { TROUPE_CUDA_MAX_MINIMIZED = 8 };
typedef struct {
  int32_t skip;   // of the present step: a gradient is not finite, so nothing changes
  int32_t taken;  // steps of this launch before the present one that were not skipped: the row of rules; -1 at first
  float scale[TROUPE_CUDA_MAX_MINIMIZED];  // by which each minimised group's gradient is multiplied: clipping
} TroupeCudaControl;

// A stretch of a flat buffer, and where the sum of the squares of each of its blocks of TROUPE_CUDA_NORM_BLOCK goes.
typedef struct {
  const float* values;
  int64_t count;
  double* squares;
} TroupeCudaSquares;

// What a minimised group contributes to the decision.
typedef struct {
  const double* squares;        // of each block of TROUPE_CUDA_NORM_BLOCK elements
  int64_t blocks;               // all must be finite
  int64_t norm_blocks;          // the first ones make the global norm
  const TroupeCudaRule* rules;  // a row for each step of a launch
} TroupeCudaGradient;
enum { TROUPE_CUDA_NORM_BLOCK = 4096 };

// One pass of an optimiser over elements of flat buffers. What follows the values, if anything does, is moved in the
// same pass: as by follow().
typedef struct {
  float* values;
  float* slot0;  // as UpdateArgs (learner/engine/cpu/kernels/kernel_table.hpp)
  float* slot1;
  const float* gradient;
  uint16_t* shadow;  // bfloat16 copy of values, or null
  int64_t count;
  int32_t decays;             // whether the rule's weight_decay applies here
  int32_t minimized;          // which scale
  const float* rate;          // multiplies the learning rate: what lars_rate() has found; null: 1
  float* follower;            // a target or an average; null: none, and the next three are not read
  uint16_t* follower_shadow;  // or null
  double decay;
  const int32_t* due;
  const TroupeCudaRule* rules;
  const TroupeCudaControl* control;
} TroupeCudaUpdate;

typedef struct {
  const float* from;
  float* to;
  int64_t count;
} TroupeCudaAssign;

// A variable that LARS scales. Its norms' squares come in blocks, as of sum_squares().
typedef struct {
  const double* value_squares;
  const double* gradient_squares;
  int64_t blocks;
  int32_t minimized;  // which scale the gradient has
  const TroupeCudaRule* rules;
  const TroupeCudaControl* control;
} TroupeCudaLars;

// Columns that keep a length: of up to four matrices that stand one upon the other.
enum { TROUPE_CUDA_KEPT_PARTS = 4 };
typedef struct {
  float* values[TROUPE_CUDA_KEPT_PARTS];     // [rows, columns] each
  uint16_t* shadow[TROUPE_CUDA_KEPT_PARTS];  // bfloat16 copies, or null
  int64_t rows[TROUPE_CUDA_KEPT_PARTS];      // 0: no further part
  int64_t columns;
  double length;
  const TroupeCudaControl* control;
} TroupeCudaKept;

// The items of a replay table, in device memory (replay/gpu_items.hpp). Slots are 0 to *present - 1.
enum { TROUPE_CUDA_REPLAY_LEVELS = 11, TROUPE_CUDA_REPLAY_COLUMNS = 16 };
typedef struct {
  const uint8_t* rows;     // of each slot, `stride` bytes apart: a multiple of 16, as is the address
  int64_t stride;
  int64_t capacity;        // slots
  int64_t* present;        // how many of them are in use
  double* priorities;      // of each slot
  int32_t* times_sampled;  // of each slot
  double exponent;         // a slot's weight is priority^exponent, and 0 for priority 0
  // The sum tree of replay/selectors/sum_tree.hpp, as large as the capacity demands: level[0] are the slots' weights in
  // nodes of 8, level[l + 1] the sums of level[l]'s nodes, the last level one node. levels 0: none, and draws bring
  // their slots.
  int32_t levels;
  int32_t uniform;  // without a tree: a draw's probability is 1 / *present, else 1
  double* level[TROUPE_CUDA_REPLAY_LEVELS];
} TroupeCudaReplay;

// What a table knows of a row that comes in.
typedef struct {
  double priority;
  int32_t times_sampled;
  int32_t unused;
} TroupeCudaReplayItem;

// Draws, in device memory.
typedef struct {
  const uint64_t* numbers;  // a random number for each draw, or its slot where the table has no tree
  uint32_t* slots;
  double* probabilities;
  double* priorities;      // when drawn
  int32_t* times_sampled;  // this draw included
  int32_t* last;           // whether no later one of these draws has the same slot
  float* weights;          // importance weights before they are divided by the largest
} TroupeCudaDraws;

typedef struct {
  int64_t offset, bytes;  // within a row
  void* to;               // the column of a batch: its rows without padding
} TroupeCudaReplayColumn;

typedef struct {
  uint32_t abi;  // first for ever, so that any loader can read it

  const char* (*error_text)(int error);  // never null; static storage
  // Whether this error says that the GPU is lost to this process: what was on it is gone and every further call fails
  // too, but a new process may have it again.
  int32_t (*is_lost)(int error);
  const char* (*library_error)(void);    // of this thread's last call that failed so; never null
  int (*driver_version)(int* version);   // 13000 means 13.0; 0 where no driver is installed
  int (*runtime_version)(int* version);  // what the plug-in was built with
  int (*device_count)(int* count);       // an error where no driver is installed
  int (*device)(int device, TroupeCudaDevice* about);
  int (*architectures)(const int32_t** list, int* count);  // compute capabilities with code in the plug-in: 80, 90, ...
  int (*use_device)(int device);                           // of this thread's calls from now on
  int (*free_memory)(size_t* bytes);

  int (*allocate)(size_t bytes, void** memory);  // of the device, aligned to 256 bytes
  int (*release)(void* memory);
  int (*allocate_host)(size_t bytes, void** memory);  // pinned: copies of it need no staging
  int (*release_host)(void* memory);
  int (*copy)(void* to, const void* from, size_t bytes, TroupeCudaStream* stream);  // host or device, either way
  int (*fill)(void* to, int byte, size_t bytes, TroupeCudaStream* stream);

  int (*make_stream)(TroupeCudaStream** stream);
  int (*destroy_stream)(TroupeCudaStream* stream);
  int (*synchronise)(TroupeCudaStream* stream);  // tells errors of the kernels before it too
  int (*make_event)(TroupeCudaEvent** event);
  int (*destroy_event)(TroupeCudaEvent* event);
  int (*record)(TroupeCudaEvent* event, TroupeCudaStream* stream);
  int (*wait)(TroupeCudaStream* stream, TroupeCudaEvent* event);  // the stream waits, not the caller
  int (*finished)(TroupeCudaEvent* event, int32_t* yes);
  int (*await)(TroupeCudaEvent* event);  // the caller waits

  // What is begun on the stream between these two is recorded and not run. Only kernels and copies of pinned and device
  // memory may be recorded.
  int (*begin_capture)(TroupeCudaStream* stream);
  int (*end_capture)(TroupeCudaStream* stream, TroupeCudaGraph** graph);  // must be called, whatever failed between
  // While a stream is recorded each piece of work follows the one before, unless these say otherwise: what has been
  // recorded last (null: nothing yet), and that what is recorded next follows `points` (null among them: nothing)
  // instead. Points belong to the recording.
  int (*recorded_last)(TroupeCudaStream* stream, TroupeCudaPoint** point);
  int (*record_after)(TroupeCudaStream* stream, TroupeCudaPoint* const* points, int32_t count);
  int (*launch_graph)(TroupeCudaGraph* graph, TroupeCudaStream* stream);
  int (*destroy_graph)(TroupeCudaGraph* graph);

  const TroupeCudaKernel* (*find_kernel)(const char* op);  // null: there is none
  size_t (*workspace)(const TroupeCudaKernel* kernel, const TroupeCudaCall* call);
  int (*launch)(const TroupeCudaKernel* kernel, const TroupeCudaCall* call, TroupeCudaStream* stream);
  // Several as one kernel, see kernels/chain.hpp.
  int32_t (*can_chain)(const TroupeCudaKernel* kernel, const TroupeCudaCall* call);
  int (*launch_chain)(const TroupeCudaKernel* const* kernels, const TroupeCudaCall* const* calls, int32_t count,
                      TroupeCudaStream* stream);

  // Prepared on the device in use; may be run by calls on one stream at a time.
  int (*make_product)(const TroupeCudaProductShape* shape, TroupeCudaProduct** product);
  void (*destroy_product)(TroupeCudaProduct* product);

  // Of several parts that touch nothing in common, at once: so few kernels end a step. The parts lie in host memory.
  int (*sum_squares)(const TroupeCudaSquares* parts, int32_t count, TroupeCudaStream* stream);
  // Counts the step before in control->taken, unless it was skipped, and fills skip and scale for the present one from
  // up to TROUPE_CUDA_MAX_MINIMIZED groups; `gradients` is host memory. A launch begins with skip 0 and taken -1.
  int (*decide)(const TroupeCudaGradient* gradients, int32_t count, TroupeCudaControl* control,
                TroupeCudaStream* stream);
  // Unless the step is skipped: *rate = lars_rate() of learner/engine/lars.hpp.
  int (*lars_rate)(const TroupeCudaLars* variable, float* rate, TroupeCudaStream* stream);
  // Of several parts, as above. Unless the step is skipped.
  int (*update)(const TroupeCudaUpdate* parts, int32_t count, TroupeCudaStream* stream);
  // Of several parts, as above. Unless the step is skipped: each column, but one of zeros, is multiplied by what makes
  // it `length` long.
  int (*keep_length)(const TroupeCudaKept* parts, int32_t count, TroupeCudaStream* stream);
  // Unless the step is skipped, and if due[control->taken]: average += (1 - decay) * (values - average), and its
  // shadow; decay 0 copies.
  int (*follow)(const float* values, float* average, uint16_t* shadow, double decay, int64_t count, const int32_t* due,
                const TroupeCudaControl* control, TroupeCudaStream* stream);
  // Of several parts, as above. Unless the step is skipped: to = from.
  int (*assign)(const TroupeCudaAssign* parts, int32_t count, const TroupeCudaControl* control,
                TroupeCudaStream* stream);
  // sum += weight * gradient; when `last`: gradient = (sum + weight * gradient) * share.
  int (*accumulate)(float* gradient, float* sum, int64_t count, float weight, float share, int32_t last,
                    TroupeCudaStream* stream);
  int (*to_bf16)(const float* from, uint16_t* to, int64_t count, TroupeCudaStream* stream);

  // `count` items are in the slots from `first` on, modulo capacity, and `present` in the table. count <= capacity.
  int (*replay_insert)(const TroupeCudaReplay* table, const TroupeCudaReplayItem* items, int64_t first, int64_t count,
                       int64_t present, TroupeCudaStream* stream);
  // Fills draws' outputs for `rows` draws and counts them in times_sampled; copies what `columns`, in host memory, says
  // out of the rows that are drawn. weights, unless null: importance weights,
  // (1 / (*present * probability))^importance_exponent divided by the largest of these draws.
  int (*replay_draw)(const TroupeCudaReplay* table, const TroupeCudaDraws* draws, int64_t rows,
                     const TroupeCudaReplayColumn* columns, int32_t column_count, float* weights,
                     double importance_exponent, TroupeCudaStream* stream);
  // Sets the priorities of those slots whose `last` is not 0, or, where that is null, of all, which are different then;
  // unless control is given and says skip. What is no priority (negative, infinite, no number) becomes 0. priorities:
  // TROUPE_CUDA_F32 or F64.
  int (*replay_update)(const TroupeCudaReplay* table, const uint32_t* slots, const int32_t* last,
                       const void* priorities, int32_t dtype, int64_t count, const TroupeCudaControl* control,
                       TroupeCudaStream* stream);
} TroupeCudaApi;

// What a library of kernels has beside the plug-in, which launches them.
typedef struct {
  uint32_t abi;
  const TroupeCudaKernel* (*find_kernel)(const char* op);  // null: there is none
} TroupeCudaKernels;

// The table of the plug-in with cuDNN. Streams and memory are the other one's.
typedef struct {
  uint32_t abi;
  const char* (*library_error)(void);
  int (*version)(int* version);  // 91900 means 9.19.0
  int (*make_conv)(const TroupeCudaConvShape* shape, TroupeCudaConv** conv);
  void (*destroy_conv)(TroupeCudaConv* conv);
  size_t (*workspace)(const TroupeCudaConv* conv);
  // a, b, bias, c: as ConvPlan::run (learner/engine/cpu/convolution.hpp).
  int (*run)(const TroupeCudaConv* conv, const void* a, const void* b, const float* bias, void* c, void* workspace,
             TroupeCudaStream* stream);
} TroupeCudnnApi;
