/* See orders.h. The list hangs below the process's one lock (store.h); an order that is off it and has
** no use but the list's own cannot get one, so that it ends here. */
#include "orders.h"

#include <string.h>

#include "error.h"
#include "orders_test.h"
#include "store.h"

struct entry {
  struct entry *next;
  struct kv_custom *custom;
};

static struct entry *entries;

static bool is_letter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

bool colfam_order_name_is_sound(const char *name) {
  size_t size = strlen(name);
  if (!is_letter(name[0]) || size > COLFAM_ORDER_NAME_MAX) return false;
  for (size_t i = 1; i < size; i++)
    if (!is_letter(name[i]) && !(name[i] >= '0' && name[i] <= '9') && !strchr("_-.", name[i]))
      return false;
  return true;
}

static bool is_builtin(const char *name) {
  return sqlite3_stricmp(name, "bytewise") == 0 || sqlite3_stricmp(name, "reverse") == 0;
}

/* Under the lock: the link to the entry, or to the list's end. */
static struct entry **find_link(const char *name) {
  struct entry **link = &entries;
  while (*link && sqlite3_stricmp(kv_custom_name((*link)->custom), name) != 0)
    link = &(*link)->next;
  return link;
}

/* Takes the entry over when it returns true. */
static bool link_entry(struct entry *entry) {
  colfam_store_lock();
  struct entry **link = find_link(kv_custom_name(entry->custom));
  bool is_new = !*link;
  if (is_new) *link = entry;
  colfam_store_unlock();
  return is_new;
}

int colfam_order_register(const struct kv_custom_config *config, char **message) {
  struct kv_err err = {0};
  if (!config->name || !colfam_order_name_is_sound(config->name) || is_builtin(config->name))
    return colfam_error(message, SQLITE_MISUSE,
                        "an order's name is a letter and up to 62 letters, digits, _, - and ., and "
                        "neither bytewise nor reverse");
  struct entry *entry = sqlite3_malloc64(sizeof *entry);
  if (!entry) return SQLITE_NOMEM;
  *entry = (struct entry){NULL, NULL};
  kv_status status = kv_custom_new(config, &entry->custom, &err);
  if (status == KV_OK && link_entry(entry)) return SQLITE_OK;
  int rc = SQLITE_BUSY;
  if (status == KV_OK) {
    kv_custom_disown(entry->custom);
    kv_custom_unref(entry->custom);
    colfam_error(message, rc, "an order %s is registered already", config->name);
  } else {
    rc = colfam_error_of(message, NULL, status, &err);
  }
  sqlite3_free(entry);
  return rc;
}

int colfam_order_unregister(const char *name, char **message) {
  colfam_store_lock();
  struct entry **link = find_link(name), *entry = *link;
  bool in_use = entry && kv_custom_uses(entry->custom) > 1;
  if (entry && !in_use) *link = entry->next;
  colfam_store_unlock();
  if (!entry) return colfam_error(message, SQLITE_NOTFOUND, "no order %.80s is registered", name);
  if (in_use)
    return colfam_error(message, SQLITE_BUSY,
                        "order %.80s is in use: close the connections that have used its tables",
                        name);
  kv_custom_unref(entry->custom);
  sqlite3_free(entry);
  return SQLITE_OK;
}

struct kv_custom *colfam_order_find(const char *name) {
  colfam_orders_test_register(name);
  colfam_store_lock();
  struct entry *entry = *find_link(name);
  struct kv_custom *custom = entry ? kv_custom_ref(entry->custom) : NULL;
  colfam_store_unlock();
  return custom;
}

void colfam_orders_lock(void) {
  for (struct entry *entry = entries; entry; entry = entry->next) kv_custom_lock(entry->custom);
}

void colfam_orders_unlock(void) {
  for (struct entry *entry = entries; entry; entry = entry->next) kv_custom_unlock(entry->custom);
}
