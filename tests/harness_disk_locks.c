/* SQLite's locks on a file of the disk in memory (harness_disk.h), between the handles of it in this
** process, by the unix VFS's rules: on the database many share, one of them may be reserved, a pending one
** lets nobody new share; on shared memory each of eight locks has many that share it or one that has it
** alone. */
#include <string.h>

#include "harness_disk.h"

static void set_level(struct disk_locks *locks, struct disk_holder *holder, int level) {
  locks->shared += (level != SQLITE_LOCK_NONE) - (holder->level != SQLITE_LOCK_NONE);
  if (level >= SQLITE_LOCK_RESERVED)
    locks->writer = holder;
  else if (locks->writer == holder)
    locks->writer = NULL;
  holder->level = level;
}

bool disk_lock(struct disk_locks *locks, struct disk_holder *holder, int level) {
  const struct disk_holder *writer = locks->writer == holder ? NULL : locks->writer;
  if (level <= holder->level) return true;
  if (writer && (level > SQLITE_LOCK_SHARED || writer->level >= SQLITE_LOCK_PENDING)) return false;
  bool granted = level != SQLITE_LOCK_EXCLUSIVE || locks->shared == 1;
  set_level(locks, holder, granted ? level : SQLITE_LOCK_PENDING);
  return granted;
}

void disk_unlock(struct disk_locks *locks, struct disk_holder *holder, int level) {
  if (level < holder->level) set_level(locks, holder, level);
}

static bool may_have(const struct disk_locks *locks, const struct disk_holder *holder, int i,
                     bool alone) {
  const struct disk_holder *exclusive = locks->shm_exclusive[i];
  if (exclusive && exclusive != holder) return false;
  return !alone || locks->shm_shared[i] == (int)(holder->shm_shared >> i & 1);
}

bool disk_shm_lock(struct disk_locks *locks, struct disk_holder *holder, int first, int count,
                   bool alone) {
  for (int i = first; i < first + count; i++)
    if (!may_have(locks, holder, i, alone)) return false;
  for (int i = first; i < first + count; i++) {
    if (alone) locks->shm_exclusive[i] = holder;
    if (alone || holder->shm_shared >> i & 1) continue;
    locks->shm_shared[i]++;
    holder->shm_shared |= 1u << i;
  }
  return true;
}

void disk_shm_unlock(struct disk_locks *locks, struct disk_holder *holder, int first, int count) {
  for (int i = first; i < first + count; i++) {
    if (locks->shm_exclusive[i] == holder) locks->shm_exclusive[i] = NULL;
    if (holder->shm_shared >> i & 1) locks->shm_shared[i]--;
    holder->shm_shared &= ~(1u << i);
  }
}
