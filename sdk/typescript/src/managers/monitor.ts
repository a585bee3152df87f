import type { Alert, AlertDeleted, AlertHistory, AlertList, MonitorSetAlertInput } from "../generated.js";
import type { CallOptions } from "../options.js";
import { OfSandbox } from "./base.js";

/** Alerts: what shall happen when a sandbox uses too much. */
export class MonitorManager extends OfSandbox {
  setAlert(
    metric: MonitorSetAlertInput["metric"],
    threshold: number,
    action?: MonitorSetAlertInput["action"],
    options: CallOptions = {},
  ): Promise<Alert> {
    const input = { sandboxId: this.sandboxId, metric, threshold, action };
    return this.client.call("monitor_set_alert", input, options);
  }

  listAlerts(options: CallOptions = {}): Promise<AlertList> {
    return this.client.call("monitor_list_alerts", { sandboxId: this.sandboxId }, options);
  }

  deleteAlert(alertId: string, options: CallOptions = {}): Promise<AlertDeleted> {
    return this.client.call("monitor_delete_alert", { alertId }, options);
  }

  /** When they went off, the newest first. */
  history(limit?: number, options: CallOptions = {}): Promise<AlertHistory> {
    return this.client.call("monitor_alert_history", { sandboxId: this.sandboxId, limit }, options);
  }
}
