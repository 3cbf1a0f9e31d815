// Cooperative groups: the grid and the block.
#pragma once

namespace cooperative_groups {

struct grid_group {
  void sync() const { hc_sync_grid(); }
  unsigned long long thread_rank() const {
    unsigned long long block = blockIdx.x + gridDim.x * (blockIdx.y + (unsigned long long)gridDim.y * blockIdx.z);
    return block * (blockDim.x * blockDim.y * blockDim.z) + hc_thread();
  }
  unsigned long long size() const {
    return (unsigned long long)gridDim.x * gridDim.y * gridDim.z * blockDim.x * blockDim.y * blockDim.z;
  }
  unsigned long long num_threads() const { return size(); }
  bool is_valid() const { return true; }
};
struct thread_block {
  void sync() const { hc_sync_block(0); }
  unsigned thread_rank() const { return hc_thread(); }
  unsigned size() const { return blockDim.x * blockDim.y * blockDim.z; }
};
inline grid_group this_grid() { return {}; }
inline thread_block this_thread_block() { return {}; }
template <class G> inline void sync(const G& group) { group.sync(); }

}  // namespace cooperative_groups
