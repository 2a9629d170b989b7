// Answers MKL's question whether the processor is Intel's with yes. Preloaded for PyTorch rivals (bench/run.py): the MKL
// inside their wheels skips its AVX-512 kernels on AMD processors otherwise, and a rival is to be measured at its best.
int mkl_serv_intel_cpu_true(void) { return 1; }
