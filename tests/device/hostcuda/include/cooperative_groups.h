// Cooperative groups: the grid and the block.
#pragma once

namespace cooperative_groups {

struct thread_block {
  void sync() const { hc_sync_block(0); }
  unsigned thread_rank() const { return hc_thread(); }
  unsigned size() const { return blockDim.x * blockDim.y * blockDim.z; }
};
struct grid_group {
  void sync() const { hc_sync_grid(); }
  bool is_valid() const { return true; }
  unsigned long long num_blocks() const { return (unsigned long long)gridDim.x * gridDim.y * gridDim.z; }
  unsigned long long size() const { return num_blocks() * thread_block().size(); }
  unsigned long long thread_rank() const {
    return (blockIdx.x + gridDim.x * (blockIdx.y + size_t(gridDim.y) * blockIdx.z)) * thread_block().size() + hc_thread();
  }
};
inline grid_group this_grid() { return {}; }
inline thread_block this_thread_block() { return {}; }
template <class G> inline void sync(const G& group) { group.sync(); }

}  // namespace cooperative_groups
