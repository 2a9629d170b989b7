#!/usr/bin/env python3
"""PyTorch's float32 step beside Troupe's bfloat16 rows: what a user gains who changes the type."""
import torch_resnet50

if __name__ == "__main__":
    torch_resnet50.main(only_fp32=True)
