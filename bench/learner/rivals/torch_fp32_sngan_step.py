#!/usr/bin/env python3
"""PyTorch's float32 step beside Troupe's bfloat16 rows: what a user gains who changes the type."""
import torch_sngan_step

if __name__ == "__main__":
    torch_sngan_step.main([(name, threads, False) for name, threads, bf16 in torch_sngan_step.ROWS if bf16])
