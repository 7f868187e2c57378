from stand_in import stand_in

# Plain data types, which vLLM has too.
stand_in("sgl_kernel", {"sgl_kernel.scalar_type": "vllm.scalar_type"})
