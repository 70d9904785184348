/* Statuses and the error text that travels with them. Nothing in the engine answers a failure with a
** bool, a length or an end mark. */
#ifndef KV_STATUS_H
#define KV_STATUS_H

#if defined(__clang__)
#define KV_MUST_CHECK_TYPE __attribute__((warn_unused_result))
#else
#define KV_MUST_CHECK_TYPE
#endif
#define KV_PRINTF(text, first) __attribute__((format(printf, text, first)))

typedef enum KV_MUST_CHECK_TYPE kv_status {
  KV_OK = 0,
  KV_NOMEM, /* an allocation failed; the object is unchanged unless its header says otherwise */
  KV_IO,    /* the operating system refused a read, write or sync */
  KV_DENIED, /* the operating system allows it only to others: permissions, a read-only file system */
  KV_FULL,   /* no space, or a size limit of the file system */
  KV_BUSY,   /* somebody else needs it still, or was faster: not damage, try later */
  KV_CORRUPT,  /* bytes that cannot be what was written */
  KV_MISSING,  /* a file that the manifest names is not there: not called damage */
  KV_MISUSE,   /* the caller broke the contract, or passed a value out of range */
  KV_CANCELED, /* the caller asked to stop */
  KV_VERSION   /* written by a newer version, or with an order that is not registered */
} kv_status;

/* The caller's buffer for one error; borrowed by every call that can fail, filled only on failure. */
struct kv_err {
  kv_status status;
  char text[480]; /* one sentence with the file and the numbers, NUL-terminated, cut when longer */
};

/* No failure yet: for where one is passed along often, and its text is not worth the clearing. */
static inline void kv_err_init(struct kv_err *err) {
  err->status = KV_OK;
  err->text[0] = '\0';
}

/* Writes the text once, where the facts are known, and returns `status` for `return kv_fail(...)`.
** `err` may be NULL (the text is dropped). Never allocates. */
kv_status kv_fail(struct kv_err *err, kv_status status, const char *format, ...) KV_PRINTF(3, 4);

/* kv_fail(KV_NOMEM) with the usual text. */
kv_status kv_fail_nomem(struct kv_err *err);

/* The status's name in lower case ("corrupt"); a static string. */
const char *kv_status_name(kv_status status);

#endif
