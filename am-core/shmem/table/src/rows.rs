//! The table. A row: types | forms | result | name | parameters | function of `am-core/shmem`.
//!
//! In names, `{}` is the name of the type; in parameters, `T` is the type, and `V` is `void` in C with the size of the row's type. Forms:
//! `c`, there is also a form whose first parameter is a context; `g`, C11 has a generic name.

/// Rows by the chapters of the standard (OpenSHMEM 1.6).
pub(crate) const ROWS: &str = "
# 9.1 Library setup
one||void|init||setup::init
one||int|my_pe||setup::my_pe
one||int|n_pes||setup::n_pes
one||void|finalize||setup::finalize
one||void|global_exit|int status|setup::global_exit
one||int|pe_accessible|int pe|setup::pe_accessible
one||int|addr_accessible|const void *addr, int pe|setup::addr_accessible
one||void *|ptr|const void *dest, int pe|setup::ptr
one||void *|team_ptr|shmem_team_t team, const void *dest, int pe|setup::team_ptr
one||void|info_get_version|int *major, int *minor|setup::info_get_version
one||void|info_get_name|char *name|setup::info_get_name
one||int|init_thread|int requested, int *provided|setup::init_thread
one||void|query_thread|int *provided|setup::query_thread
one||void|query_initialized|int *initialized|setup::query_initialized
# 9.3 Memory
one||void *|malloc|size_t size|memory::malloc
one||void|free|void *ptr|memory::free
one||void *|realloc|void *ptr, size_t size|memory::realloc
one||void *|align|size_t alignment, size_t size|memory::align
one||void *|malloc_with_hints|size_t size, long hints|memory::malloc_with_hints
one||void *|calloc|size_t count, size_t size|memory::calloc
# 9.4 Teams
one||int|team_my_pe|shmem_team_t team|team::my_pe
one||int|team_n_pes|shmem_team_t team|team::n_pes
one||int|team_get_config|shmem_team_t team, long config_mask, shmem_team_config_t *config|team::get_config
one||int|team_translate_pe|shmem_team_t src_team, int src_pe, shmem_team_t dest_team|team::translate_pe
one||int|team_split_strided|shmem_team_t parent_team, int start, int stride, int size, const shmem_team_config_t *config, long config_mask, shmem_team_t *new_team|team::split_strided
one||int|team_split_2d|shmem_team_t parent_team, int xrange, const shmem_team_config_t *xaxis_config, long xaxis_mask, shmem_team_t *xaxis_team, const shmem_team_config_t *yaxis_config, long yaxis_mask, shmem_team_t *yaxis_team|team::split_2d
one||void|team_destroy|shmem_team_t team|team::destroy
# 9.5 Contexts
one||int|ctx_create|long options, shmem_ctx_t *ctx|context::create
one||int|team_create_ctx|shmem_team_t team, long options, shmem_ctx_t *ctx|context::team_create
one||void|ctx_destroy|shmem_ctx_t ctx|context::destroy
one||int|ctx_get_team|shmem_ctx_t ctx, shmem_team_t *team|context::get_team
one||void|ctx_session_start|shmem_ctx_t ctx, long options, const shmem_ctx_session_config_t *config, long config_mask|context::session_start
one||void|ctx_session_stop|shmem_ctx_t ctx|context::session_stop
# 9.6 Remote memory access
std|cg|void|{}_put|T *dest, const T *source, size_t nelems, int pe|rma::put
bits|c|void|put{}|V *dest, const V *source, size_t nelems, int pe|rma::put
mem|c|void|putmem|V *dest, const V *source, size_t nelems, int pe|rma::put
std-|cg|void|{}_p|T *dest, T value, int pe|rma::p
std|cg|void|{}_iput|T *dest, const T *source, ptrdiff_t dst, ptrdiff_t sst, size_t nelems, int pe|rma::iput
bits|c|void|iput{}|V *dest, const V *source, ptrdiff_t dst, ptrdiff_t sst, size_t nelems, int pe|rma::iput
std|cg|void|{}_ibput|T *dest, const T *source, ptrdiff_t dst, ptrdiff_t sst, size_t bsize, size_t nblocks, int pe|rma::ibput
bits|c|void|ibput{}|V *dest, const V *source, ptrdiff_t dst, ptrdiff_t sst, size_t bsize, size_t nblocks, int pe|rma::ibput
std|cg|void|{}_get|T *dest, const T *source, size_t nelems, int pe|rma::get
bits|c|void|get{}|V *dest, const V *source, size_t nelems, int pe|rma::get
mem|c|void|getmem|V *dest, const V *source, size_t nelems, int pe|rma::get
std-|cg|T|{}_g|const T *source, int pe|rma::g
std|cg|void|{}_iget|T *dest, const T *source, ptrdiff_t dst, ptrdiff_t sst, size_t nelems, int pe|rma::iget
bits|c|void|iget{}|V *dest, const V *source, ptrdiff_t dst, ptrdiff_t sst, size_t nelems, int pe|rma::iget
std|cg|void|{}_ibget|T *dest, const T *source, ptrdiff_t dst, ptrdiff_t sst, size_t bsize, size_t nblocks, int pe|rma::ibget
bits|c|void|ibget{}|V *dest, const V *source, ptrdiff_t dst, ptrdiff_t sst, size_t bsize, size_t nblocks, int pe|rma::ibget
std|cg|void|{}_put_nbi|T *dest, const T *source, size_t nelems, int pe|rma::put
bits|c|void|put{}_nbi|V *dest, const V *source, size_t nelems, int pe|rma::put
mem|c|void|putmem_nbi|V *dest, const V *source, size_t nelems, int pe|rma::put
std|cg|void|{}_get_nbi|T *dest, const T *source, size_t nelems, int pe|rma::get
bits|c|void|get{}_nbi|V *dest, const V *source, size_t nelems, int pe|rma::get
mem|c|void|getmem_nbi|V *dest, const V *source, size_t nelems, int pe|rma::get
# 9.7 Atomics
ext|cg|T|{}_atomic_fetch|const T *source, int pe|atomics::fetch
ext|cg|void|{}_atomic_set|T *dest, T value, int pe|atomics::set
amo|cg|T|{}_atomic_compare_swap|T *dest, T cond, T value, int pe|atomics::compare_swap
ext|cg|T|{}_atomic_swap|T *dest, T value, int pe|atomics::swap
amo|cg|T|{}_atomic_fetch_inc|T *dest, int pe|atomics::fetch_inc
amo|cg|void|{}_atomic_inc|T *dest, int pe|atomics::inc
amo|cg|T|{}_atomic_fetch_add|T *dest, T value, int pe|atomics::fetch_add
amo|cg|void|{}_atomic_add|T *dest, T value, int pe|atomics::add
bit|cg|T|{}_atomic_fetch_and|T *dest, T value, int pe|atomics::fetch_and
bit|cg|void|{}_atomic_and|T *dest, T value, int pe|atomics::and
bit|cg|T|{}_atomic_fetch_or|T *dest, T value, int pe|atomics::fetch_or
bit|cg|void|{}_atomic_or|T *dest, T value, int pe|atomics::or
bit|cg|T|{}_atomic_fetch_xor|T *dest, T value, int pe|atomics::fetch_xor
bit|cg|void|{}_atomic_xor|T *dest, T value, int pe|atomics::xor
ext|cg|void|{}_atomic_fetch_nbi|T *fetch, const T *source, int pe|atomics::fetch_nbi
amo|cg|void|{}_atomic_compare_swap_nbi|T *fetch, T *dest, T cond, T value, int pe|atomics::compare_swap_nbi
ext|cg|void|{}_atomic_swap_nbi|T *fetch, T *dest, T value, int pe|atomics::swap_nbi
amo|cg|void|{}_atomic_fetch_inc_nbi|T *fetch, T *dest, int pe|atomics::fetch_inc_nbi
amo|cg|void|{}_atomic_fetch_add_nbi|T *fetch, T *dest, T value, int pe|atomics::fetch_add_nbi
bit|cg|void|{}_atomic_fetch_and_nbi|T *fetch, T *dest, T value, int pe|atomics::fetch_and_nbi
bit|cg|void|{}_atomic_fetch_or_nbi|T *fetch, T *dest, T value, int pe|atomics::fetch_or_nbi
bit|cg|void|{}_atomic_fetch_xor_nbi|T *fetch, T *dest, T value, int pe|atomics::fetch_xor_nbi
oldext|g|T|{}_fetch|const T *source, int pe|atomics::old::fetch
oldext|g|void|{}_set|T *dest, T value, int pe|atomics::old::set
oldext|g|T|{}_swap|T *dest, T value, int pe|atomics::old::swap
old|g|T|{}_cswap|T *dest, T cond, T value, int pe|atomics::old::compare_swap
old|g|T|{}_finc|T *dest, int pe|atomics::old::fetch_inc
old|g|void|{}_inc|T *dest, int pe|atomics::old::inc
old|g|T|{}_fadd|T *dest, T value, int pe|atomics::old::fetch_add
old|g|void|{}_add|T *dest, T value, int pe|atomics::old::add
# 9.8 Signals
std|cg|void|{}_put_signal|T *dest, const T *source, size_t nelems, uint64_t *sig_addr, uint64_t signal, int sig_op, int pe|signal::put
bits|c|void|put{}_signal|V *dest, const V *source, size_t nelems, uint64_t *sig_addr, uint64_t signal, int sig_op, int pe|signal::put
mem|c|void|putmem_signal|V *dest, const V *source, size_t nelems, uint64_t *sig_addr, uint64_t signal, int sig_op, int pe|signal::put
std|cg|void|{}_put_signal_nbi|T *dest, const T *source, size_t nelems, uint64_t *sig_addr, uint64_t signal, int sig_op, int pe|signal::put
bits|c|void|put{}_signal_nbi|V *dest, const V *source, size_t nelems, uint64_t *sig_addr, uint64_t signal, int sig_op, int pe|signal::put
mem|c|void|putmem_signal_nbi|V *dest, const V *source, size_t nelems, uint64_t *sig_addr, uint64_t signal, int sig_op, int pe|signal::put
one||uint64_t|signal_fetch|const uint64_t *sig_addr|signal::fetch
one|cg|void|signal_add|uint64_t *sig_addr, uint64_t signal, int pe|signal::add
one|cg|void|signal_set|uint64_t *sig_addr, uint64_t signal, int pe|signal::set
# 9.9 Collectives
one||void|barrier_all||collective::barrier_all
one||void|barrier|int PE_start, int logPE_stride, int PE_size, long *pSync|collective::barrier
one||void|sync_all||collective::sync_all
one||int|team_sync|shmem_team_t team|collective::team_sync
one||void|sync|int PE_start, int logPE_stride, int PE_size, long *pSync|collective::sync
std|g|int|{}_alltoall|shmem_team_t team, T *dest, const T *source, size_t nelems|collective::alltoall
mem||int|alltoallmem|shmem_team_t team, V *dest, const V *source, size_t nelems|collective::alltoall
b3264||void|alltoall{}|V *dest, const V *source, size_t nelems, int PE_start, int logPE_stride, int PE_size, long *pSync|collective::old::alltoall
std|g|int|{}_alltoalls|shmem_team_t team, T *dest, const T *source, ptrdiff_t dst, ptrdiff_t sst, size_t nelems|collective::alltoalls
mem||int|alltoallsmem|shmem_team_t team, V *dest, const V *source, ptrdiff_t dst, ptrdiff_t sst, size_t nelems|collective::alltoalls
b3264||void|alltoalls{}|V *dest, const V *source, ptrdiff_t dst, ptrdiff_t sst, size_t nelems, int PE_start, int logPE_stride, int PE_size, long *pSync|collective::old::alltoalls
std|g|int|{}_broadcast|shmem_team_t team, T *dest, const T *source, size_t nelems, int PE_root|collective::broadcast
mem||int|broadcastmem|shmem_team_t team, V *dest, const V *source, size_t nelems, int PE_root|collective::broadcast
b3264||void|broadcast{}|V *dest, const V *source, size_t nelems, int PE_root, int PE_start, int logPE_stride, int PE_size, long *pSync|collective::old::broadcast
std|g|int|{}_collect|shmem_team_t team, T *dest, const T *source, size_t nelems|collective::collect
mem||int|collectmem|shmem_team_t team, V *dest, const V *source, size_t nelems|collective::collect
b3264||void|collect{}|V *dest, const V *source, size_t nelems, int PE_start, int logPE_stride, int PE_size, long *pSync|collective::old::collect
std|g|int|{}_fcollect|shmem_team_t team, T *dest, const T *source, size_t nelems|collective::fcollect
mem||int|fcollectmem|shmem_team_t team, V *dest, const V *source, size_t nelems|collective::fcollect
b3264||void|fcollect{}|V *dest, const V *source, size_t nelems, int PE_start, int logPE_stride, int PE_size, long *pSync|collective::old::fcollect
rbit|g|int|{}_and_reduce|shmem_team_t team, T *dest, const T *source, size_t nreduce|reduce::and
rbit|g|int|{}_or_reduce|shmem_team_t team, T *dest, const T *source, size_t nreduce|reduce::or
rbit|g|int|{}_xor_reduce|shmem_team_t team, T *dest, const T *source, size_t nreduce|reduce::xor
std|g|int|{}_max_reduce|shmem_team_t team, T *dest, const T *source, size_t nreduce|reduce::max
std|g|int|{}_min_reduce|shmem_team_t team, T *dest, const T *source, size_t nreduce|reduce::min
stdc|g|int|{}_sum_reduce|shmem_team_t team, T *dest, const T *source, size_t nreduce|reduce::sum
stdc|g|int|{}_prod_reduce|shmem_team_t team, T *dest, const T *source, size_t nreduce|reduce::prod
stdc|g|int|{}_sum_inscan|shmem_team_t team, T *dest, const T *source, size_t nelems|reduce::sum_inscan
stdc|g|int|{}_sum_exscan|shmem_team_t team, T *dest, const T *source, size_t nelems|reduce::sum_exscan
oldbit||void|{}_and_to_all|T *dest, const T *source, int nreduce, int PE_start, int logPE_stride, int PE_size, T *pWrk, long *pSync|reduce::old::and
oldbit||void|{}_or_to_all|T *dest, const T *source, int nreduce, int PE_start, int logPE_stride, int PE_size, T *pWrk, long *pSync|reduce::old::or
oldbit||void|{}_xor_to_all|T *dest, const T *source, int nreduce, int PE_start, int logPE_stride, int PE_size, T *pWrk, long *pSync|reduce::old::xor
oldnum||void|{}_max_to_all|T *dest, const T *source, int nreduce, int PE_start, int logPE_stride, int PE_size, T *pWrk, long *pSync|reduce::old::max
oldnum||void|{}_min_to_all|T *dest, const T *source, int nreduce, int PE_start, int logPE_stride, int PE_size, T *pWrk, long *pSync|reduce::old::min
oldsum||void|{}_sum_to_all|T *dest, const T *source, int nreduce, int PE_start, int logPE_stride, int PE_size, T *pWrk, long *pSync|reduce::old::sum
oldsum||void|{}_prod_to_all|T *dest, const T *source, int nreduce, int PE_start, int logPE_stride, int PE_size, T *pWrk, long *pSync|reduce::old::prod
# 9.10 Point-to-point synchronization
sync|g|void|{}_wait_until|T *ivar, int cmp, T cmp_value|wait::until
sync|g|void|{}_wait_until_all|T *ivars, size_t nelems, const int *status, int cmp, T cmp_value|wait::until_all
sync|g|size_t|{}_wait_until_any|T *ivars, size_t nelems, const int *status, int cmp, T cmp_value|wait::until_any
sync|g|size_t|{}_wait_until_some|T *ivars, size_t nelems, size_t *indices, const int *status, int cmp, T cmp_value|wait::until_some
sync|g|void|{}_wait_until_all_vector|T *ivars, size_t nelems, const int *status, int cmp, T *cmp_values|wait::until_all_vector
sync|g|size_t|{}_wait_until_any_vector|T *ivars, size_t nelems, const int *status, int cmp, T *cmp_values|wait::until_any_vector
sync|g|size_t|{}_wait_until_some_vector|T *ivars, size_t nelems, size_t *indices, const int *status, int cmp, T *cmp_values|wait::until_some_vector
sync|g|int|{}_test|T *ivar, int cmp, T cmp_value|wait::test
sync|g|int|{}_test_all|T *ivars, size_t nelems, const int *status, int cmp, T cmp_value|wait::test_all
sync|g|size_t|{}_test_any|T *ivars, size_t nelems, const int *status, int cmp, T cmp_value|wait::test_any
sync|g|size_t|{}_test_some|T *ivars, size_t nelems, size_t *indices, const int *status, int cmp, T cmp_value|wait::test_some
sync|g|int|{}_test_all_vector|T *ivars, size_t nelems, const int *status, int cmp, T *cmp_values|wait::test_all_vector
sync|g|size_t|{}_test_any_vector|T *ivars, size_t nelems, const int *status, int cmp, T *cmp_values|wait::test_any_vector
sync|g|size_t|{}_test_some_vector|T *ivars, size_t nelems, size_t *indices, const int *status, int cmp, T *cmp_values|wait::test_some_vector
one||uint64_t|signal_wait_until|uint64_t *sig_addr, int cmp, uint64_t cmp_value|wait::signal
sync4||void|{}_wait|T *ivar, T cmp_value|wait::changed
one||void|wait|long *ivar, long cmp_value|wait::changed
one||void|wait_until|long *ivar, int cmp, long cmp_value|wait::until
# 9.11 Memory ordering
one||void|fence||order::fence
one||void|ctx_fence|shmem_ctx_t ctx|order::ctx_fence
one||void|quiet||order::quiet
one||void|ctx_quiet|shmem_ctx_t ctx|order::ctx_quiet
one||void|pe_quiet|const int *target_pes, size_t npes|order::pe_quiet
one||void|ctx_pe_quiet|shmem_ctx_t ctx, const int *target_pes, size_t npes|order::ctx_pe_quiet
# 9.12 Locks
one||void|clear_lock|long *lock|lock::clear
one||void|set_lock|long *lock|lock::set
one||int|test_lock|long *lock|lock::test
# 9.13 Caches
one||void|set_cache_inv||setup::nothing
one||void|clear_cache_inv||setup::nothing
one||void|udcflush||setup::nothing
one||void|set_cache_line_inv|void *dest|setup::nothing_at
one||void|clear_cache_line_inv|void *dest|setup::nothing_at
one||void|udcflush_line|void *dest|setup::nothing_at
# Names of the time before OpenSHMEM
bare||void|start_pes|int npes|setup::start_pes
bare||int|_my_pe||setup::my_pe
bare||int|_num_pes||setup::n_pes
bare||int|my_pe||setup::my_pe
bare||int|num_pes||setup::n_pes
bare||void *|shmalloc|size_t size|memory::malloc
bare||void|shfree|void *ptr|memory::free
bare||void *|shrealloc|void *ptr, size_t size|memory::realloc
bare||void *|shmemalign|size_t alignment, size_t size|memory::align
";
