"""Runs a PyTorch function on a GPU in the forms in which it can be fast, for the rivals with --device.

The fastest is what a row reports, and the version says which it was. Forms: recorded by hand as a CUDA graph, as written
and compiled by torch.compile after a search for the best kernels; and torch.compile with its own CUDA graphs. One that
PyTorch refuses is named on stderr. On the processor, for trials, there are no graphs.
"""
import functools
import sys

import torch
import torch._functorch.config

import gpu_rows

DEVICE = torch.device(gpu_rows.DEVICE)
ON_GPU = DEVICE.type == "cuda"


def wait():
    if ON_GPU:
        torch.cuda.synchronize(DEVICE)


def allow_tf32(yes):
    torch.backends.cuda.matmul.allow_tf32 = yes
    torch.backends.cudnn.allow_tf32 = yes


def record(function, calls):
    """A function that runs it once for each of `calls`, which are its arguments, as one CUDA graph."""
    stream = torch.cuda.Stream(DEVICE)
    stream.wait_stream(torch.cuda.current_stream(DEVICE))
    with torch.cuda.stream(stream):
        for _ in range(11):  # compiles, more than once as first steps differ; loads kernels; allocates optimisers' state
            function(*calls[0])
    torch.cuda.current_stream(DEVICE).wait_stream(stream)
    torch.cuda.synchronize(DEVICE)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, stream=stream):
        for arguments in calls:
            function(*arguments)
    return graph.replay


def in_a_loop(function, calls):
    def run():
        for arguments in calls:
            function(*arguments)

    return run


def marked(function, calls):
    """in_a_loop() for functions with CUDA graphs of their own, which want to know where a step begins."""

    def step(*arguments):
        torch.compiler.cudagraph_mark_step_begin()
        function(*arguments)

    return in_a_loop(step, calls)


def as_written(function):
    return function


# Name -> (what is done to the functions that can be compiled, what makes one of all calls).
if ON_GPU:
    FORMS = {
        "recorded": (as_written, record),
        "compiled and recorded": (functools.partial(torch.compile, mode="max-autotune-no-cudagraphs"), record),
        "compiled, its own graphs": (functools.partial(torch.compile, mode="reduce-overhead"), marked),
    }
else:
    # Traced as for compiling, but not translated to C++, which takes minutes.
    FORMS = {"eager": (as_written, in_a_loop), "traced": (functools.partial(torch.compile, backend="aot_eager"), in_a_loop)}


def fastest(make, calls, measure):
    """(value, version) of the form with the highest measure(run), where run() does all of `calls`. make(compiler): the
    function, with state of its own; what it calls that has a backward pass, or needs none, it passes through `compiler`.
    (A gradient taken inside of what is compiled would be traced anew at each call.)"""
    values = {}
    torch._functorch.config.donated_buffer = False  # losses that share a backward pass keep its buffers
    for name, (compiler, arrange) in FORMS.items():
        torch.compiler.reset()
        try:
            values[name] = measure(arrange(make(compiler), calls))
        except Exception as error:  # of many kinds, from compilers and the driver
            first = str(error).strip().splitlines()[:2]
            print(f"form left out: {name}: {type(error).__name__}: {' '.join(first)}", file=sys.stderr, flush=True)
        print(f"{name}: {values.get(name)}", file=sys.stderr, flush=True)
        if ON_GPU:
            torch.cuda.empty_cache()
    if not values:
        sys.exit("PyTorch ran in no form")
    best = max(values, key=values.get)
    return values[best], f"{torch.__version__} {best}"
