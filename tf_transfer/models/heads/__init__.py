"""The heads of tasks on an encoder. A file has one or several similar heads."""

# Poolings that read nothing of the top block but its [CLS]. It is here so that
# a sweep's plan needs no Keras.
CLS_ONLY = ("cls", "cls_state", "last4")
